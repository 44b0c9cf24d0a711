# The stand-in's own checks, `debian.smoke`: they are no part of nixpkgs' interface.
pkgs:
pkgs.linkFarm "debian-smoke" {
  programs = import ./programs.nix pkgs;
  conventions = import ./conventions.nix pkgs;
}
