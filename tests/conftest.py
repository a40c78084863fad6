"""What holds for all tests."""

import os

from hypothesis import settings

# A busy machine is no reason for a property to fail. Under CI hypothesis' own profile says so, and fixes the seed too.
settings.register_profile("patient", deadline=None)
if "CI" not in os.environ:
    settings.load_profile("patient")
