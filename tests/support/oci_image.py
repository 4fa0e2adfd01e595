"""The test image; see koord_demo.oci_image."""

from koord_demo.oci_image import IMAGE, SLEEP_FOREVER, write_image

__all__ = ["IMAGE", "SLEEP_FOREVER", "write_image"]
