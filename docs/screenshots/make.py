"""Pictures of every page in both themes: `python docs/screenshots/make.py URL NAME PASSWORD PLAN [INFEASIBLE]`.

Needs a running instance with a finished plan (and one that found no way), playwright (tests/requirements-dev.txt) and
a Chromium that CHROMIUM names. `-light` and `-dark` are 1280 px wide, `-phone` 360 px.
"""

from __future__ import annotations

import os
import shutil
import sys
from pathlib import Path

from playwright.sync_api import sync_playwright

FOLDER = Path(__file__).parent
PAGES = {
    "home": "/",
    "new-plan": "/plans/new/",
    "calculator": "/calculator/?accelerator=h100-sxm5-80gb&model=llama-3-8b&count=8",
    "hardware": "/hardware/",
    "device": "/hardware/h100-sxm5-80gb/",
    "nodes": "/hardware/nodes/",
    "node": "/hardware/nodes/aws-p5-48xlarge/",
    "links": "/hardware/links/",
    "pools": "/hardware/pools/",
    "models": "/models/",
    "model": "/models/llama-3.1-8b/",
    "import": "/models/import/",
    "optimizers": "/optimizers/",
    "optimizer": "/optimizers/adamw-8bit/",
    "validations": "/validations/",
    "team": "/team/",
    "keys": "/keys/",
    "admin-offers": "/admin/hardware/offer/",
    "admin-prices": "/admin/hardware/offer/prices/",
}
OF_A_PLAN = {
    "plan": "/plans/{}/",
    "explain": "/plans/{}/options/1/explain/activations/",
    "explain-cost": "/plans/{}/options/1/explain/cost/",
    "exports": "/plans/{}/options/1/exports/",
    "compare": "/compare/?with={0}.1&with={0}.2",
}
TALLEST = 1300
ON_PHONES = ("home", "plan", "calculator", "new-plan", "hardware", "device")
LOOKS = ((1280, "light", "light"), (1280, "dark", "dark"), (360, "light", "phone"))


def main(url: str, name: str, password: str, plan: str, infeasible: str = "") -> None:
    """Sign in once for each theme and width, then take every page."""
    pages = PAGES | {key: path.format(plan) for key, path in OF_A_PLAN.items()}
    if infeasible:
        pages["infeasible"] = f"/plans/{infeasible}/"
    with sync_playwright() as tools:
        browser = tools.chromium.launch(
            executable_path=os.environ.get("CHROMIUM") or shutil.which("chromium"), args=["--no-sandbox"]
        )
        for width, theme, look in LOOKS:
            context = browser.new_context(viewport={"width": width, "height": 900}, color_scheme=theme)
            page = context.new_page()
            page.goto(f"{url}/login/")
            page.fill("#id_username", name)
            page.fill("#id_password", password)
            page.click("text=Sign in >> nth=-1")
            for key, path in pages.items():
                if look == "phone" and key not in ON_PHONES:
                    continue
                page.goto(url + path)
                height = min(page.evaluate("document.documentElement.scrollHeight"), TALLEST)
                clip = {"x": 0, "y": 0, "width": width, "height": height}
                page.screenshot(path=FOLDER / f"{key}-{look}.png", full_page=True, clip=clip)
            context.close()
        browser.close()


if __name__ == "__main__":
    main(*sys.argv[1:])
