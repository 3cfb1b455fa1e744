package main

import "errors"

func (b *bench) runReal() error { return errors.New("to come") }
