//go:build race

package load_test

// hostileSize is smaller under the race detector, which makes all of it slow.
const hostileSize = 1 << 17
