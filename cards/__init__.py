"""Templates of what a release shows people: reports and cards. Only templates; the values come from metrics files."""
