//go:build !bitter

package main

const flavour = "plain"
