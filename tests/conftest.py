"""What holds for all tests."""

from hypothesis import settings

# A busy machine is no fault of the code: no test has a limit of time for one example.
settings.register_profile("oresmith", deadline=None)
settings.load_profile("oresmith")
