"""The version of the numbers: changes whenever one may change; see "Numbers changed" in the changelog."""

ENGINE_VERSION = "0.1.0"
