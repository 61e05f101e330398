//go:build !race

package load_test

// hostileSize is what may just be read.
const hostileSize = 1 << 20
