package object

import (
	"encoding/json"
	"fmt"
	"strconv"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/kplan-dev/kplan/fleet"
)

// Orders is what a run's control ConfigMap says.
type Orders struct {
	fleet.Control
	// Round is the one that runs; Jobs of others start nothing.
	Round int
}

// ControlMap makes the ConfigMap of the orders.
func (s *Spec) ControlMap(o Orders) *corev1.ConfigMap {
	m := &corev1.ConfigMap{ObjectMeta: s.meta(s.Run.Control(), PartControl)}
	o.Write(m)
	return m
}

// Write puts the orders into their ConfigMap.
func (o Orders) Write(m *corev1.ConfigMap) {
	text, err := json.Marshal(o.Control)
	if err != nil { // there is none of such values
		panic(err)
	}
	if m.Data == nil {
		m.Data = map[string]string{}
	}
	m.Data[keyControl], m.Data[keyRound] = string(text), strconv.Itoa(o.Round)
}

// ReadOrders reads what Write wrote.
func ReadOrders(m *corev1.ConfigMap) (o Orders, err error) {
	if err = json.Unmarshal([]byte(m.Data[keyControl]), &o.Control); err == nil {
		o.Round, err = strconv.Atoi(m.Data[keyRound])
	}
	if err == nil && o.Round < 1 {
		err = fmt.Errorf("round %d", o.Round)
	}
	if err != nil {
		return o, fmt.Errorf("reading ConfigMap %s/%s: %w", m.Namespace, m.Name, err)
	}
	return o, nil
}

// ownedBy is a reference to an object's owner.
func ownedBy(m *corev1.ConfigMap) *metav1.OwnerReference {
	return &metav1.OwnerReference{APIVersion: "v1", Kind: "ConfigMap", Name: m.Name, UID: m.UID}
}

// OwnedBy lets the objects that are made from now on go with the first one.
func (s *Spec) OwnedBy(root *corev1.ConfigMap) { s.Owner = ownedBy(root) }
