/**
 * Values of `node:http` for code that runs in every process. `import … from "node:http"` reads each export of that module, and
 * three of them (`WebSocket`, `CloseEvent`, `MessageEvent`) load all of Node's undici when they are read: 13 MiB of resident memory
 * and 20 to 80 ms of a start (Node 24.12). Types are imported from `node:http` as usual.
 */
export const { Agent, createServer, get, request, STATUS_CODES } = process.getBuiltinModule("node:http");
