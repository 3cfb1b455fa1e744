// Package chart holds the checks of the Helm chart and the image: run.sh and
// image.sh, with tools of a module of their own, and tests that need none.
package chart
