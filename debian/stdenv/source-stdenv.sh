# What every builder starts with: bash -e source-stdenv.sh BUILDER
if [ -e "${NIX_ATTRS_SH_FILE:-}" ]; then
    source "$NIX_ATTRS_SH_FILE"
fi
source "$stdenv/setup"
source "$1"
