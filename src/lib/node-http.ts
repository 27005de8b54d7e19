/**
 * Values of `node:http` for code that runs in every process. `import … from "node:http"` reads each export of that module, and
 * three of them (`WebSocket`, `CloseEvent`, `MessageEvent`) load all of Node's undici when they are read: 13 MiB of resident memory
 * in a process that does nothing else, and 70 ms of CPU in a command (Node 24). Types are imported from `node:http` as usual.
 */
export const { Agent, createServer, get, request, STATUS_CODES } = process.getBuiltinModule("node:http");
