import assert from "node:assert/strict";
import { connect } from "node:net";
import { it } from "node:test";
import { setFlagsFromString } from "node:v8";
import { runInNewContext } from "node:vm";
import { formBody } from "../../../support/form.ts";
import { until } from "../../../support/until.ts";
import { field, fileOf, model, openSite, transcriptions, wavOf } from "./gateway.ts";

setFlagsFromString("--expose-gc");
const collect: () => void = runInNewContext("gc");

function memoryBytes(): number {
  collect();
  const { heapUsed, arrayBuffers } = process.memoryUsage();
  return heapUsed + arrayBuffers;
}

it("an upload in chunks of single bytes takes no more memory than another", async () => {
  await using site = await openSite({ isCold: true });
  const { hostname, port } = new URL(site.gateway.url);
  const body = formBody("b", [model, field("prompt", "x".repeat(60_000)), fileOf(wavOf(20_000))]);
  const before = memoryBytes();
  const socket = connect(Number(port), hostname);
  socket.write(
    `POST ${transcriptions} HTTP/1.1\r\nhost: x\r\ntransfer-encoding: chunked\r\ncontent-type: multipart/form-data; boundary=b\r\n\r\n`,
  );
  socket.write(Buffer.from(Array.from(body, (byte) => [0x31, 0x0d, 0x0a, byte, 0x0d, 0x0a]).flat()));
  socket.write("0\r\n\r\n");
  await until("it is held", () => site.gateway.demand("stt")?.held === 1);
  const grown = memoryBytes() - before;
  assert.ok(grown < 5_000_000, `${grown} bytes`);
  socket.destroy();
});
