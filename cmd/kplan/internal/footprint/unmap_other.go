//go:build !linux

package footprint

// unmap does nothing: how to is not known of other systems.
func unmap() {}
