package otlp

import (
	"bytes"
	"encoding/base64"
	"encoding/hex"
	"encoding/json"

	tracepb "go.opentelemetry.io/proto/otlp/trace/v1"
	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/proto"
)

// Protobuf returns a trace as a collector takes it: TracesData has the same bytes as the
// request that OTLP defines.
func Protobuf(d *tracepb.TracesData) ([]byte, error) {
	return proto.MarshalOptions{Deterministic: true}.Marshal(d)
}

// JSON returns a trace on one line of JSON, as collectors read it from files and take it by
// HTTP.
//
// OTLP writes identifiers in hexadecimal, where protojson writes bytes in base64. Bytes
// whose base64 is that hexadecimal are put in their place: its letters are letters of base64
// too, and there are as many as make whole bytes.
func JSON(d *tracepb.TracesData) ([]byte, error) {
	d, _ = proto.Clone(d).(*tracepb.TracesData)
	for _, r := range d.GetResourceSpans() {
		for _, s := range r.GetScopeSpans() {
			for _, span := range s.GetSpans() {
				for _, id := range []*[]byte{&span.TraceId, &span.SpanId, &span.ParentSpanId} {
					if len(*id) == 0 {
						continue
					}
					b, err := base64.StdEncoding.DecodeString(hex.EncodeToString(*id))
					if err != nil {
						return nil, err
					}
					*id = b
				}
			}
		}
	}
	b, err := protojson.MarshalOptions{UseEnumNumbers: true}.Marshal(d)
	if err != nil {
		return nil, err
	}
	var line bytes.Buffer
	if err := json.Compact(&line, b); err != nil { // protojson puts spaces in at random
		return nil, err
	}
	line.WriteByte('\n')
	return line.Bytes(), nil
}
