// Parses the text format of Prometheus on stdin with parse-prometheus-text-format, and prints JSON.
const { createRequire } = require('node:module')
const { join } = require('node:path')
const parse = createRequire(join(process.argv[2], 'index.js'))('parse-prometheus-text-format')
let text = ''
process.stdin.on('data', (chunk) => { text += chunk })
process.stdin.on('end', () => console.log(JSON.stringify(parse.default ? parse.default(text) : parse(text))))
