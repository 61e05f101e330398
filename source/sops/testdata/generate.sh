#!/bin/sh
# Makes the encrypted files anew from those in plain/. Takes sops 3.13:
#   go install github.com/getsops/sops/v3/cmd/sops@v3.13.3
set -eu
cd "$(dirname "$0")"
us=$(sed -n 's/^# public key: //p' keys.txt)
them=$(sed -n 's/^# public key: //p' other.txt)
enc() { # FILE FLAG…
	file=$1
	shift
	sops encrypt "$@" "plain/$file" >"$file"
}
enc values.yaml --age "$us"
enc values.json --age "$us"
enc many.yaml --age "$us"
enc secret.yaml --age "$us" --encrypted-regex '^(data|stringData)$'
enc suffix.yaml --age "$us" --encrypted-suffix _secret
enc regex.yaml --age "$us" --unencrypted-regex '^(user|plain)$'
enc two.yaml --age "$them,$us"
enc ssh.yaml --age "$(cut -d' ' -f1,2 id_ed25519.pub)"
enc token.txt --age "$us"
enc secret.env --age "$us"
rule() { # FILE RULE
	config=$(mktemp)
	printf 'creation_rules: [%s]\n' "$2" >"$config"
	sops --config "$config" encrypt --filename-override x.yaml "plain/$1" >"$1"
	rm "$config"
}
rule mac-only.yaml "{age: '$us', encrypted_regex: '^(data|stringData)\$', mac_only_encrypted: true}"
rule comment.yaml "{age: '$us', encrypted_comment_regex: 'sops:enc'}"
rule uncomment.yaml "{age: '$us', unencrypted_comment_regex: '^ open\$'}"
rule groups.yaml "{shamir_threshold: 2, key_groups: [{age: ['$us']}, {age: ['$them']}]}"
