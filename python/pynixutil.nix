# Reads .drv files. nixpkgs does not have it.
{
  lib,
  buildPythonPackage,
  fetchPypi,
}:

buildPythonPackage rec {
  pname = "pynixutil";
  version = "0.5.0";
  # Plain Python; the sdist would need poetry of before 1.0 to make the same files.
  format = "wheel";

  src = fetchPypi {
    inherit pname version format;
    dist = "py3";
    python = "py3";
    hash = "sha256-gbkz4KL5uZUMvrI2iTmS//0fFpZjLlEwz+/+N6c0QhU=";
  };

  pythonImportsCheck = [ "pynixutil" ];

  meta = {
    description = "Utility functions for working with Nix in Python";
    homepage = "https://github.com/tweag/pynixutil";
    license = lib.licenses.mit;
  };
}
