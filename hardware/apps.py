from django.apps import AppConfig


class HardwareConfig(AppConfig):
    name = "hardware"
    verbose_name = "Hardware catalog"
    default_auto_field = "django.db.models.BigAutoField"
