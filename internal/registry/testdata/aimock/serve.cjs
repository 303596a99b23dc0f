// Serves the fixtures beside it until standard input ends. The first line of
// output is where.
const path = require("node:path");
const { LLMock } = require(path.join(process.argv[2], "node_modules/@copilotkit/aimock"));
const mock = new LLMock({ port: 0, host: "127.0.0.1", chunkSize: 12, logLevel: "silent" });
mock.loadFixtureFile(path.join(__dirname, "fixtures.json"));
mock.start().then(() => console.log(mock.url));
process.stdin.resume();
process.stdin.on("end", () => process.exit(0));
