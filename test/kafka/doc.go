// Package kafka runs real Apache Kafka clusters for tests: brokers are plain
// java processes on loopback, fetched through Maven and formatted for KRaft. It
// needs java (17 or later) and mvn, no container engine.
//
// Starting takes seconds, so the tests of a package share a [SharedCluster] and
// work in topics of their own; a test that needs another configuration starts a
// cluster for itself with [Start]. The package's TestMain calls [Main].
//
// Each broker has two listeners. DIRECT is for checkers and admin clients.
// FAULTY is for clients under test: it is advertised at [FaultyHost], where
// nothing listens until a test puts a fault proxy there, so that whoever starts
// there is led through fault proxies to every broker.
package kafka
