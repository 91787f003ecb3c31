//go:build bitter

package main

const flavour = "bitter"
