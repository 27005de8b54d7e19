import { setTimeout as delay } from "node:timers/promises";
import { atMost, figure, mebibyte, told, type Bar, type Result } from "../bar.ts";
import { peakBytes, residentBytes, resetPeak } from "../machine/cpu.ts";
import { engineCommand, openSite } from "../machine/site.ts";
import { pieces, upload } from "../machine/upload.ts";

const limit = 64 * mebibyte;
const piece = Buffer.alloc(64 * 1024, "x");

/** Memory that large bodies cost: refused ones, and a recording on its way to a transcription. */
export const bodies: Bar = {
  name: "bodies",
  about: "memory that a refused 100 MB body and a 25 MB upload cost",
  async run() {
    await using site = await openSite({ slotPorts: 1 });
    await site.slot("bench", {
      capabilities: ["chat", "transcription"],
      model: { default: "fixed" },
      command: engineCommand(),
    });
    await site.operator();
    await site.state("bench", "ready");
    const { pid } = await site.gateway();
    const grown = async (send: () => Promise<number>): Promise<{ status: number; peak: number; left: number }> => {
      resetPeak(pid);
      const before = residentBytes(pid);
      const status = await send();
      const peak = (peakBytes(pid) - before) / mebibyte;
      // Long enough for a collection, which Node does when it has time.
      await delay(2000);
      return { status, peak, left: (residentBytes(pid) - before) / mebibyte };
    };
    const chat = (length: number, isChunked: boolean): Promise<number> =>
      upload({
        port: site.gatewayPort,
        path: "/v1/chat/completions",
        contentType: "application/json",
        ...(isChunked ? {} : { length }),
        pieces: pieces(Math.ceil(length / piece.length), piece),
      });
    for (let round = 0; round < 3; round++) await chat(limit + piece.length, false);
    const declared = await grown(() => chat(100 * mebibyte, false));
    const chunked = await grown(() => chat(100 * mebibyte, true));
    const record = (bytes: number, isModelFirst: boolean): Promise<number> =>
      upload({
        port: site.gatewayPort,
        path: "/v1/audio/transcriptions",
        contentType: "multipart/form-data; boundary=bench",
        ...recording(bytes, isModelFirst),
      });
    await record(mebibyte, true);
    const first = await grown(() => record(25 * mebibyte, true));
    const after = await grown(() => record(25 * mebibyte, false));
    return [
      answered("100 MB with a length: answer", declared.status, 413),
      atMost("100 MB with a length: memory", Math.max(0, declared.peak), 2, " MiB"),
      answered("100 MB in chunks: answer", chunked.status, 413),
      // The body itself may take all of the limit; the rest is what one socket needs.
      atMost(
        "100 MB in chunks: memory",
        chunked.peak,
        (limit / mebibyte) * 1.05,
        " MiB",
        ` (${figure(chunked.left)} 2 s later)`,
      ),
      answered("25 MB recording: answer", first.status, 200),
      atMost("25 MB recording: memory", Math.max(0, first.peak), 10, " MiB"),
      told("25 MB recording, model after file", `${after.status}, ${figure(Math.max(0, after.peak))} MiB`),
    ];
  },
};

function answered(bar: string, status: number, wanted: number): Result {
  return { bar, measured: String(status), target: String(wanted), isMet: status === wanted };
}

/** A multipart form of a file of that size and the field `model`, before or after it. */
function recording(bytes: number, isModelFirst: boolean): { length: number; pieces: Iterable<Buffer> } {
  const model = Buffer.from('--bench\r\ncontent-disposition: form-data; name="model"\r\n\r\nbench\r\n');
  const head = Buffer.from(
    '--bench\r\ncontent-disposition: form-data; name="file"; filename="a.wav"\r\ncontent-type: audio/wav\r\n\r\n',
  );
  const end = Buffer.from("--bench--\r\n");
  const newline = Buffer.from("\r\n");
  const count = Math.ceil(bytes / piece.length);
  return {
    length: model.length + head.length + count * piece.length + newline.length + end.length,
    pieces: (function* () {
      if (isModelFirst) yield model;
      yield head;
      yield* pieces(count, piece);
      yield newline;
      if (!isModelFirst) yield model;
      yield end;
    })(),
  };
}
