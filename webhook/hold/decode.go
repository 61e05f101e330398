package hold

// uncompressed undoes a content coding of HTTP.
func uncompressed(_ string, b []byte) []byte { return b }
