//go:build !race

package plan_test

// hostileSize is what may just be read.
const hostileSize = 1 << 20
