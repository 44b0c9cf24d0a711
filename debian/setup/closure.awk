# Reads Debian's list of packages, and LIST (debian/packages); writes OUT/sets and OUT/debs.
#
# A closure follows Depends and Pre-Depends. Of alternatives the first that exists counts,
# then the first that something provides; version bounds are not looked at, as all comes from
# one release, which is consistent.

function without_bounds(dependencies) {
    gsub(/\([^)]*\)|\[[^]]*\]|<[^>]*>|:any|:native|[ \t]/, "", dependencies)
    return dependencies
}

function end_of_package(    n, provided, i) {
    # A list may have a package twice, with two versions.
    if (package != "" && (!(package in version_of) ||
            system("dpkg --compare-versions " version " gt " version_of[package]) == 0)) {
        version_of[package] = version
        sha256_of[package] = sha256
        architecture_of[package] = architecture
        depends_of[package] = pre_depends "," depends
        n = provides ? split(without_bounds(provides), provided, ",") : 0
        for (i = 1; i <= n; i++) {
            sub(/=.*/, "", provided[i])
            if (!(provided[i] in provider_of))
                provider_of[provided[i]] = package
        }
    }
    package = version = sha256 = architecture = depends = pre_depends = provides = ""
}

function choose(alternatives,    n, a, i) {
    n = split(alternatives, a, "|")
    for (i = 1; i <= n; i++)
        if (a[i] in version_of)
            return a[i]
    for (i = 1; i <= n; i++)
        if (a[i] in provider_of)
            return provider_of[a[i]]
    print "nothing is or provides " alternatives > "/dev/stderr"
    failed = 1
    return ""
}

function add(name) {
    if (name != "" && !(name in member)) {
        member[name] = 1
        queue[++queued] = name
    }
}

# Closure of ROOTS (separated by commas), in the order of a breadth-first walk.
function closure(roots,    n, names, i, next_, result) {
    split("", member)
    queued = 0
    n = split(roots, names, ",")
    for (i = 1; i <= n; i++)
        add(choose(names[i]))
    for (next_ = 1; next_ <= queued; next_++) {
        result = result (next_ > 1 ? "," : "") queue[next_]
        used[queue[next_]] = 1
        n = split(without_bounds(depends_of[queue[next_]]), names, ",")
        for (i = 1; i <= n; i++)
            if (names[i] != "")
                add(choose(names[i]))
    }
    return result
}

/^Package: / { package = $2 }
/^Version: / { version = $2 }
/^SHA256: / { sha256 = $2 }
/^Architecture: / { architecture = $2 }
/^Depends: / { depends = substr($0, 10) }
/^Pre-Depends: / { pre_depends = substr($0, 14) }
/^Provides: / { provides = substr($0, 11) }
/^$/ { end_of_package() }

END {
    end_of_package()
    while ((getline line < list) > 0) {
        if (line ~ /^(#|$)/)
            continue
        roots = line
        sub(/^[^:]*: */, "", roots)
        gsub(/ +/, ",", roots)
        sub(/:.*/, "", line)
        print line, roots, closure(roots) > (out "/sets")
    }
    for (name in used) {
        # apt's name for the file: an epoch's colon is escaped
        file = version_of[name]
        gsub(/:/, "%3a", file)
        print name, version_of[name], sha256_of[name],
            name "_" file "_" architecture_of[name] ".deb" > (out "/debs")
    }
    exit failed
}
