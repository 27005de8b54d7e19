import assert from "node:assert/strict";
import { spawn } from "node:child_process";
import { once } from "node:events";
import { join } from "node:path";
import { describe, it } from "node:test";
import { enginePrint } from "../../src/program/engine-print.ts";
import { engineEstimate, printArguments } from "../../src/models/fit/engine-figures.ts";
import { estimate, sumOf, type Estimate } from "../../src/models/fit/estimate.ts";
import { ProjectorCache } from "../../src/models/fit/projector.ts";
import { settingsOf } from "../../src/models/fit/flags.ts";
import { tempDir } from "../support/temp-dir.ts";
import { shapeFrom } from "../support/shape-source.ts";
import { writeShape } from "../support/shaped-model.ts";
import { projector, writeProjector } from "../support/projector.ts";
import { shapes } from "../support/shapes.ts";
import { llamaServer } from "./fixture.ts";

const mebibyte = 1024 ** 2;

/** What the engine says that it has allocated, in bytes, by kind of buffer. */
async function reported(
  model: string,
  flags: readonly string[],
  isWhole = /compute buffer size = [^\n]*\n[^]*graph nodes|graph[^\n]*nodes = /,
): Promise<ReadonlyMap<string, number>> {
  const child = spawn(
    llamaServer(),
    ["--host", "127.0.0.1", "--port", "0", "-lv", "4", "--no-webui", "--cache-ram", "0"].concat(
      // A projector's buffers are made when it is warmed up.
      flags.includes("--mmproj") ? [] : ["--no-warmup"],
      "--threads",
      "2",
      "--model",
      model,
      flags,
    ),
    { stdio: ["ignore", "pipe", "pipe"] },
  );
  let said = "";
  const ended = once(child, "exit");
  try {
    await new Promise<void>((resolve, reject) => {
      const listen = (chunk: Buffer): void => {
        said += chunk.toString();
        // The last thing that is allocated; what follows is the server's own.
        if (isWhole.test(said)) resolve();
      };
      child.stdout.on("data", listen);
      child.stderr.on("data", listen);
      child.once("exit", () =>
        reject(
          new Error(
            said
              .split("\n")
              .filter((line) => line.includes(" E "))
              .join("\n"),
          ),
        ),
      );
    });
  } finally {
    child.kill("SIGKILL");
    await ended;
  }
  const told = said.slice(said.search(/load_tensors: loading model tensors/));
  const buffers = new Map<string, number>();
  for (const [, kind = "", mebibytes] of told.matchAll(
    /\S+ +(model|KV|RS|compute|output) buffer size = +([\d.]+) MiB/g,
  ))
    buffers.set(kind, (buffers.get(kind) ?? 0) + Number(mebibytes) * mebibyte);
  const [, weights] = /has vision encoder[^]*?load_hparams: model size: +([\d.]+) MiB/.exec(told) ?? [];
  if (weights !== undefined) buffers.set("projector", Number(weights) * mebibyte);
  return buffers;
}

const base = ["--parallel", "1", "--ctx-size", "4096"];
const cases: readonly (readonly [string, keyof typeof shapes, readonly string[]])[] = [
  ["grouped heads", "dense", base],
  ["a long context for several at once", "dense", ["--parallel", "4", "--ctx-size", "65536"]],
  ["one cache for several at once", "dense", ["--parallel", "4", "--ctx-size", "16384", "--kv-unified"]],
  ["a quantised cache", "dense", [...base, "-fa", "on", "-ctk", "q8_0", "-ctv", "q8_0"]],
  ["no flash attention", "dense", [...base, "-fa", "off"]],
  ["a large batch", "dense", [...base, "-ub", "2048"]],
  ["no context named", "dense", ["--parallel", "2", "--fit", "off"]],
  ["embeddings", "dense", [...base, "--embedding", "--pooling", "mean"]],
  ["tied embeddings in f16", "tied", base],
  ["weights that are rearranged", "repacked", base],
  ["weights of two kinds", "mixed", base],
  ["as many heads for keys as for queries", "manyHeads", base],
  ["normed keys", "qwen3", base],
  ["a mixture of experts", "mixtureOfExperts", base],
  ["a sliding window", "slidingWindow", ["--parallel", "1", "--ctx-size", "16384"]],
  ["a sliding window for several at once", "slidingWindow", ["--parallel", "4", "--ctx-size", "16384", "--kv-unified"]],
  ["a sliding window that is not used", "slidingWindow", [...base, "--swa-full"]],
  ["a large vocabulary", "largeVocabulary", base],
  ["heads that differ by layer, and layers without", "perLayerHeads", base],
  ["the same without flash attention", "perLayerHeads", [...base, "-fa", "off"]],
  ["latent attention", "latent", base],
  ["states instead of attention", "stateSpace", ["--parallel", "4", "--ctx-size", "4096"]],
  ["convolutions among attention", "hybrid", base],
  ["states among attention", "hybridStates", ["--parallel", "2", "--ctx-size", "8192"]],
];

describe("what a load takes, without a GPU", () => {
  it("is estimated as llama-server then reports it: a projector", async () => {
    await using directory = await tempDir();
    const [model, file] = [join(directory.path, "model.gguf"), join(directory.path, "mmproj.gguf")];
    await writeShape(model, shapes.dense);
    await writeProjector(file, { ...projector, width: 1024, heads: 16, feedForward: 4096, imageSize: 448 });
    const flags = [...base, "--mmproj", file];
    const told = await reported(
      model,
      flags,
      /reserve_compute_meta: [^\n]*compute buffer size = [^]*loaded multimodal/,
    );
    const shape = await shapeFrom(shapes.dense);
    const projectorBytes = await new ProjectorCache().bytesOf(file, true);
    const settings = settingsOf(flags, {}, { contextLength: shape.contextLength, gpus: [], projectorBytes });
    const whole = [...told.values()].reduce((one, other) => one + other, 0);
    const ratio = sumOf(estimate(shape, settings).host) / whole - 1;
    assert.ok((told.get("projector") ?? 0) > 100 * mebibyte, [...told].join(" "));
    assert.ok(ratio <= 0.1 && ratio >= -0.03, `${ratio}: ${[...told].join(" ")}`);
    // The engine's allocator loads no projector, whose memory is added.
    const args = printArguments(["--model", model, ...flags], settings, shape);
    const text = args === undefined ? undefined : await enginePrint(process.env, undefined)(llamaServer(), args, {});
    const engine = text === undefined ? undefined : engineEstimate(text, shape, settings);
    assert.ok(engine !== undefined);
    assert.ok(Math.abs(sumOf(engine.host) / whole - 1) <= 0.03, `${sumOf(engine.host)} for ${whole}`);
  });

  for (const [what, name, flags] of cases) {
    it(`is estimated as llama-server then reports it: ${what}`, async () => {
      await using directory = await tempDir();
      const path = join(directory.path, "model.gguf");
      await writeShape(path, shapes[name]);
      const told = await reported(path, flags);
      const shape = await shapeFrom(shapes[name]);
      const settings = settingsOf(flags, {}, { contextLength: shape.contextLength, gpus: [], projectorBytes: 0 });
      const near = (stage: string, { host }: Estimate, over: number, under: number): void => {
        const whole = [...told.values()].reduce((one, other) => one + other, 0);
        const ratio = sumOf(host) / whole - 1;
        const parts = Object.entries(host).map(([key, value]) =>
          typeof value === "number" ? `${key} ${value / mebibyte}` : "",
        );
        const figures = [...told].map(([kind, bytes]) => `${kind} ${bytes / mebibyte}`).join(" ");
        assert.ok(ratio <= over && ratio >= -under, `${stage} ${ratio}: ${parts.join(" ")}; reported ${figures}`);
      };
      const header = estimate(shape, settings);
      near("header", header, 0.1, 0.03);
      const cache = (told.get("KV") ?? 0) + (told.get("RS") ?? 0);
      assert.ok(Math.abs(header.host.cache - cache) <= 0.02 * mebibyte, `${header.host.cache} for ${cache}`);
      const print = enginePrint(process.env, undefined);
      const args = printArguments(["--model", path, ...flags], settings, shape);
      if (args === undefined) {
        assert.deepEqual([settings.isUnified, shape.window], [true, 512], "it cannot be asked of that");
        return;
      }
      const text = await print(llamaServer(), args, {});
      assert.ok(text !== undefined, "llama-fit-params is built beside llama-server");
      const engine = engineEstimate(text, shape, settings);
      assert.ok(engine !== undefined, text);
      near("engine", engine, 0.03, 0.03);
    });
  }
});
