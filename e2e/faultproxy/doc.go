// Package faultproxy is the one fault injector of the tests: a proxy between a program and an API server, with the
// credentials of the program. It can cut the connection, hold watches back, end them, lose and delay requests and
// answers, and answer with errors. What passes can be observed.
package faultproxy
