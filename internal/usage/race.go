//go:build race

package usage

const race = true
