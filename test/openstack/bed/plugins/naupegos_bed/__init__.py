"""What stands in for hardware in Naupegos' OpenStack test bed; everything else is OpenStack's own code."""
