// Package externalgrpc is the cluster-autoscaler's protocol, generated from externalgrpc.proto. It may know nothing of this module.
package externalgrpc

//go:generate protoc --go_out=. --go_opt=paths=source_relative --go-grpc_out=. --go-grpc_opt=paths=source_relative externalgrpc.proto
