// What plain HTML cannot do: copying, filtering a list of ticks, single-letter keys. Every page works without this file.
"use strict";

document.addEventListener("click", async (event) => {
  const button = event.target.closest("[data-copy]");
  if (!button) return;
  const source = document.getElementById(button.dataset.copy);
  await navigator.clipboard.writeText(source.textContent);
  const words = button.textContent;
  button.textContent = "Copied";
  setTimeout(() => { button.textContent = words; }, 2000);
});

// A file dropped on a config field is read into it, and the page then reads it as if it had been typed.
document.addEventListener("dragover", (event) => { if (event.target.matches("[data-drop]")) event.preventDefault(); });
document.addEventListener("drop", async (event) => {
  const file = event.target.matches("[data-drop]") && event.dataTransfer.files[0];
  if (!file) return;
  event.preventDefault();
  event.target.value = await file.text();
  event.target.dispatchEvent(new Event("input", { bubbles: true }));
});

const inField = (element) => element.closest("input, select, textarea, [contenteditable]");

const stepOption = (by) => {
  const links = [...document.querySelectorAll("[data-option]")].filter((link) => link.offsetParent);
  const here = links.indexOf(document.activeElement);
  const next = links[Math.min(Math.max(here + by, 0), links.length - 1)];
  if (next) next.focus();
};

// The explain panel: its heading takes the focus when it opens, and the number gets it back on Escape.
let opener = null;
document.addEventListener("htmx:beforeRequest", (event) => { if (event.target.matches("a.num")) opener = event.target; });
document.addEventListener("htmx:afterSwap", (event) => {
  if (event.detail.target.id !== "panel") return;
  const heading = document.getElementById("explained");
  if (heading) heading.focus();
});
const closePanel = () => {
  const panel = document.getElementById("panel");
  if (!panel || !opener) return;
  panel.replaceChildren();
  opener.focus();
  opener = null;
};

const keys = {
  Escape: closePanel,
  n: () => { location.assign(document.body.dataset.new); },
  "?": () => { location.assign(document.body.dataset.keys); },
  "/": () => { const field = document.querySelector("[data-key='/']"); if (field) field.focus(); },
  j: () => stepOption(1),
  k: () => stepOption(-1),
};

document.addEventListener("keydown", (event) => {
  if (event.ctrlKey || event.metaKey || event.altKey || inField(event.target) || !keys[event.key]) return;
  if (event.key.length === 1 && document.body.dataset.letters === "off") return;
  event.preventDefault();
  keys[event.key]();
});

// A long list of ticks gets a field that hides what does not match; ticked ones stay.
document.addEventListener("input", (event) => {
  if (!event.target.matches("[data-narrow]")) return;
  const typed = event.target.value.trim().toLowerCase();
  for (const label of document.getElementById(event.target.dataset.narrow).querySelectorAll("label")) {
    label.hidden = !label.textContent.toLowerCase().includes(typed) && !label.firstElementChild.checked;
  }
});

// What only works with this file shows only with it.
const reveal = (inside) => { for (const item of inside.querySelectorAll("[data-scripted][hidden]")) item.hidden = false; };
reveal(document);
document.addEventListener("htmx:afterSwap", (event) => reveal(event.detail.target));
