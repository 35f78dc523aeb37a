// Package dns keeps the record of the API's name in a zone of Designate: it creates the record, moves it with the API's address, and removes it
// with the cluster. A record is the cluster's if its description is the cluster's mark; others are never changed. The package must not know where
// the address comes from.
package dns
