# One image for web, worker and beat: the command decides.
FROM python:3.13-slim

ENV PYTHONUNBUFFERED=1 \
    PYTHONDONTWRITEBYTECODE=1 \
    PLANNER_NO_BOOTSTRAP=1

RUN useradd --create-home --uid 10001 planner
WORKDIR /app

# Before the code, so that a change of code does not install again.
COPY requirements.txt .
RUN pip install --no-cache-dir -r requirements.txt

COPY LICENSE manage.py pyproject.toml ./
COPY accounting accounting
COPY hardware hardware
COPY planner planner

# Static files need settings, and settings need values that this step never uses.
RUN SECRET_KEY=build DATABASE_URL=sqlite://:memory: REDIS_URL=redis://unused ALLOWED_HOSTS=unused \
    python manage.py collectstatic --noinput

USER planner
EXPOSE 8000
CMD ["gunicorn", "planner.wsgi", "--bind", "0.0.0.0:8000", "--workers", "2", "--worker-class", "planner.server.Worker", "--threads", "16", "--no-control-socket"]
