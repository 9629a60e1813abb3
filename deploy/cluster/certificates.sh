#!/bin/sh
# Certificates for a cluster, if there is no authority of your own: certificates.sh FOLDER NAME[,ADDRESS...] ...
# FOLDER/ca.pem and ca.key are made once. NAME is a user of NATS, or the name of a server, with its addresses.
set -eu
umask 077
folder=$1
shift
mkdir -p "$folder"
cd "$folder"
new="-newkey ec -pkeyopt ec_paramgen_curve:P-256 -nodes"
[ -e ca.key ] || openssl req -x509 $new -days 3650 -subj "/CN=Hopscope cluster" \
    -addext keyUsage=critical,keyCertSign,cRLSign -keyout ca.key -out ca.pem 2>/dev/null
for names in "$@"; do
    name=${names%%,*}
    alternative=DNS:$(echo "$names" | sed 's/,/,DNS:/g; s/DNS:\([0-9.]*\|[0-9a-f]*:[0-9a-f:]*\)\(,\|$\)/IP:\1\2/g')
    openssl req -x509 $new -days 825 -subj "/CN=$name" -CA ca.pem -CAkey ca.key -keyout "$name.key" -out "$name.pem" \
        -addext "subjectAltName=$alternative" -addext basicConstraints=critical,CA:false \
        -addext extendedKeyUsage=serverAuth,clientAuth 2>/dev/null
    echo "$folder/$name.pem"
done
