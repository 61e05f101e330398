//go:build race

package plan_test

// hostileSize is smaller under the race detector, which makes all of it slow.
const hostileSize = 1 << 17
