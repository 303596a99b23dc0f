// Package web provides the pages of the server: HTML that is rendered from templates and works without JavaScript, and
// a stream of events that keeps open pages up to date.
package web

// Pages are complete documents. A page that is open listens to /live and, when something has happened, requests itself
// again and merges the new document into the old one (static/live.js). So each page has one template and no second,
// partial form. Steps change often: the graph of a run is patched attribute by attribute, and the rest of the page
// follows later.
