# Nothing looks into a license here; it only has to have the name nixpkgs gives it.
lib:
lib.mapAttrs
  (_: spdxId: {
    inherit spdxId;
    shortName = lib.toLower spdxId;
    free = true;
  })
  {
    asl20 = "Apache-2.0";
    bsd2 = "BSD-2-Clause";
    bsd3 = "BSD-3-Clause";
    cc0 = "CC0-1.0";
    gpl2 = "GPL-2.0";
    gpl2Only = "GPL-2.0-only";
    gpl2Plus = "GPL-2.0-or-later";
    gpl3 = "GPL-3.0";
    gpl3Only = "GPL-3.0-only";
    gpl3Plus = "GPL-3.0-or-later";
    isc = "ISC";
    lgpl21Only = "LGPL-2.1-only";
    lgpl21Plus = "LGPL-2.1-or-later";
    lgpl2Plus = "LGPL-2.0-or-later";
    lgpl3Plus = "LGPL-3.0-or-later";
    mit = "MIT";
    mpl20 = "MPL-2.0";
    psfl = "Python-2.0";
    publicDomain = "LicenseRef-Public-Domain";
    unlicense = "Unlicense";
    zlib = "Zlib";
  }
