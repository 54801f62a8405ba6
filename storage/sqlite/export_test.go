package sqlite

// Off lets tests outside of the package go without flushes.
const Off = off
