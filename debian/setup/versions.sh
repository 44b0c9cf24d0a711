# The versions of the packages: made from what the mirror offers, and kept until
# debian/packages or debian/sources change or the mirror no longer has one of them.
#
# Three tables in STATE/versions, fields separated by blanks:
#   sets      SET ROOT[,ROOT…] PACKAGE[,PACKAGE…]     a line of debian/packages, its closure
#   debs      PACKAGE VERSION SHA256 FILE
#   sources   SOURCE PART VERSION SHA256 FILE

versions=$state/versions

versions_key() { sha256sum < <(cat "$debian"/{packages,sources} "$debian"/setup/closure.awk); }

fix_versions() {
    [[ -e $versions/key && $(<"$versions/key") == "$(versions_key)" ]] || renew_versions
}

renew_versions() {
    need_apt
    local new=$work/versions
    rm -rf "$new"
    mkdir "$new"
    index Packages | awk -v list="$debian/packages" -v out="$new" -f "$debian/setup/closure.awk" ||
        fail "debian/packages needs a package that Debian $suite does not have"
    index Sources | awk -v list="$debian/sources" '
        BEGIN { while ((getline line < list) > 0) wanted[line] = 1 }
        /^Package: / { package = $2 }
        /^Version: / { version = $2 }
        /^[^ ]/ { checksums = /^Checksums-Sha256:/ }
        checksums && $3 ~ /\.tar\.[a-z0-9]+$/ {
            part = $3
            sub(/\.tar\.[a-z0-9]+$/, "", part)
            sub(/.*\./, "", part)
            if ((package " " part) in wanted)
                print package, part, version, $1, $3
        }' >"$new/sources"
    sort -o "$new/debs" "$new/debs"
    versions_key >"$new/key"
    rm -rf "$versions"
    mv "$new" "$versions"
}
