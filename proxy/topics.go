package proxy

import (
	"sync"
	"sync/atomic"
)

// topics gives every incarnation of a topic a handle. Produce requests name a
// topic by name up to version 12 and by id from version 13 (KIP-516); both lead
// to one handle once a Metadata response has told the pair. A topic that was
// deleted and created again has another id, and so another handle: it must not
// inherit windows.
//
// Reading takes no lock: the maps are copied when a topic is new.
type topics struct {
	known atomic.Pointer[topicMaps]
	mu    sync.Mutex // serialises changes
	next  uint32
}

type topicMaps struct {
	byName map[string]topic
	byID   map[[16]byte]uint32
}

type topic struct {
	handle uint32
	id     [16]byte // zero while unknown
}

func newTopics() *topics {
	t := new(topics)
	t.known.Store(&topicMaps{byName: map[string]topic{}, byID: map[[16]byte]uint32{}})
	return t
}

// handle returns the handle of the topic with this name, or with this id where
// name is empty.
func (t *topics) handle(name []byte, id [16]byte) uint32 {
	known := t.known.Load()
	if len(name) == 0 {
		if h, ok := known.byID[id]; ok {
			return h
		}
	} else if found, ok := known.byName[string(name)]; ok {
		return found.handle
	}
	return t.add(string(name), id)
}

func (t *topics) add(name string, id [16]byte) (handle uint32) {
	t.change(func(m *topicMaps) {
		if name == "" {
			if handle = m.byID[id]; handle == 0 {
				handle = t.newHandle()
				m.byID[id] = handle
			}
			return
		}
		if handle = m.byName[name].handle; handle == 0 {
			handle = t.newHandle()
			m.byName[name] = topic{handle: handle}
		}
	})
	return handle
}

// learn records that the topic of this name has this id now.
func (t *topics) learn(name string, id [16]byte) {
	if name == "" || id == [16]byte{} {
		return
	}
	if known, ok := t.known.Load().byName[name]; ok && known.id == id {
		return
	}
	t.change(func(m *topicMaps) {
		old := m.byName[name]
		h, known := m.byID[id]
		switch {
		case known:
		case old.handle != 0 && old.id == [16]byte{}:
			h = old.handle
		default:
			h = t.newHandle()
		}
		if old.id != id {
			delete(m.byID, old.id)
		}
		m.byName[name] = topic{handle: h, id: id}
		m.byID[id] = h
	})
}

// forget drops a topic that a broker does not know: whatever comes under its
// name next may be another one.
func (t *topics) forget(name []byte, id [16]byte) {
	t.change(func(m *topicMaps) {
		if len(name) > 0 {
			delete(m.byID, m.byName[string(name)].id)
			delete(m.byName, string(name))
			return
		}
		delete(m.byID, id)
		for name, known := range m.byName {
			if known.id == id {
				delete(m.byName, name)
			}
		}
	})
}

// name returns a topic's name, "" where only its id is known.
func (t *topics) name(name []byte, id [16]byte) string {
	if len(name) > 0 {
		return string(name)
	}
	for known, topic := range t.known.Load().byName {
		if topic.id == id {
			return known
		}
	}
	return ""
}

func (t *topics) newHandle() uint32 {
	t.next++
	return t.next
}

func (t *topics) change(edit func(*topicMaps)) {
	t.mu.Lock()
	defer t.mu.Unlock()
	old := t.known.Load()
	m := &topicMaps{byName: make(map[string]topic, len(old.byName)+1), byID: make(map[[16]byte]uint32, len(old.byID)+1)}
	for k, v := range old.byName {
		m.byName[k] = v
	}
	for k, v := range old.byID {
		m.byID[k] = v
	}
	edit(m)
	t.known.Store(m)
}
