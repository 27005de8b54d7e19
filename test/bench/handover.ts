/**
 * Counts the connections that are lost when one gateway's listening sockets give way to another's, over many handovers:
 *
 *   node_modules/.bin/node test/bench/handover.ts [connections a second] [handovers] [plain]
 *
 * Both sides are processes with the gateway's own `Listeners`, and a new connection for each request. `plain` closes the
 * sockets at once instead. docs/adr/0043-handover.md has the results.
 */
import { fork, type ChildProcess } from "node:child_process";
import { once } from "node:events";
import { mkdir } from "node:fs/promises";
import { createServer, get } from "node:http";
import { Server as NetServer } from "node:net";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { Listeners } from "../../src/gateway/http/listeners.ts";
import { freePort } from "../support/free-port.ts";

const host = "127.0.0.1";
const [first = "50", second = "100", third] = process.argv.slice(2);

if (first === "listen") await listen(Number(second), third === "standby" ? "standby" : "gateway");
else await measure(Number(first), Number(second));

async function listen(port: number, role: "gateway" | "standby"): Promise<void> {
  const server = createServer((_request, response) => response.end("ok"));
  const sockets: NetServer[] = [];
  if (process.env["PLAIN"] === "1") {
    for (let count = 0; count < 8; count++) {
      const socket = new NetServer({ allowHalfOpen: true, noDelay: true }, (each) => server.emit("connection", each));
      socket.listen({ host, port, reusePort: true, backlog: 4096 });
      await once(socket, "listening");
      sockets.push(socket);
    }
  }
  const report = (): { pid: number; version: string; isReady: boolean } => ({
    pid: process.pid,
    version: "bench",
    isReady: true,
  });
  const stateDir = join(tmpdir(), `berth-handover-${port}`);
  await mkdir(stateDir, { recursive: true });
  const listeners = new Listeners(server, { role, stateDir, report });
  if (sockets.length === 0)
    await listeners.listen({ host, port }, async (how) => {
      server.listen(how);
      await once(server, "listening");
    });
  listeners.opened();
  process.on("message", () => {
    if (sockets.length === 0) void listeners.close().then(() => process.exit(0));
    else {
      for (const socket of sockets) socket.close();
      setTimeout(() => process.exit(0), 500);
    }
  });
  process.send?.("listens");
}

async function measure(perSecond: number, handovers: number): Promise<void> {
  const port = await freePort();
  const start = async (role: string): Promise<ChildProcess> => {
    const child = fork(fileURLToPath(import.meta.url), ["listen", String(port), role], {
      env: { ...process.env, PLAIN: third === "plain" ? "1" : "0" },
    });
    await once(child, "message");
    return child;
  };
  const lost = new Map<string, number>();
  let sent = 0;
  let done = 0;
  const ask = (): void => {
    sent += 1;
    const request = get({ host, port, agent: false, headers: { connection: "close" } }, (response) => {
      response.resume().on("end", () => (done += 1));
    });
    request.on("error", (error: Error & { code?: string }) => {
      done += 1;
      lost.set(error.code ?? error.message, (lost.get(error.code ?? error.message) ?? 0) + 1);
    });
  };
  let running = await start("gateway");
  const began = performance.now();
  const timer = setInterval(() => {
    while (sent < ((performance.now() - began) / 1000) * perSecond) ask();
  }, 1);
  for (let count = 0; count < handovers; count++) {
    const next = await start(count % 2 === 0 ? "standby" : "gateway");
    const ended = once(running, "exit");
    running.send("close");
    await ended;
    running = next;
  }
  clearInterval(timer);
  while (done < sent) await new Promise((resolve) => setTimeout(resolve, 10));
  running.send("close");
  process.stdout.write(
    `${handovers} handovers, ${sent} connections, lost ${JSON.stringify(Object.fromEntries(lost))}\n`,
  );
}
