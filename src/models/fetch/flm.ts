import { access, constants, readFile, realpath, stat } from "node:fs/promises";
import { delimiter, dirname, join } from "node:path";
import { errorCode, errorMessage } from "../../lib/error-code.ts";
import { parseJson } from "../../lib/json.ts";
import { programOutput } from "../../lib/program-output.ts";
import { isRecord } from "../../lib/record.ts";
import { Subscribers } from "../../lib/subscribers.ts";
import { FetchError } from "./fetch-error.ts";
import type { DownloadProgress } from "./progress.ts";
import type { WantedModel } from "./wanted-model.ts";

/** A model of FastFlowLM's own store. */
export type FlmModel =
  /** The program `flm` is missing, or does not know the model: nothing can be fetched. */
  | { readonly state: "unavailable"; readonly message: string }
  /** Files are missing, or have another size than FastFlowLM's list says. */
  | { readonly state: "missing"; readonly wrong: readonly string[]; readonly sizeBytes: number }
  | { readonly state: "whole"; readonly directory: string; readonly sizeBytes: number };

/** The tag of a model that FastFlowLM fetches; undefined for other models. */
export function flmTag(files: WantedModel["files"]): string | undefined {
  const [file, second] = files;
  return second === undefined && file?.source.startsWith("flm://") === true
    ? file.source.slice("flm://".length)
    : undefined;
}

interface Listed {
  readonly directory: string;
  /** By name; undefined: FastFlowLM's list has no size. */
  readonly sizes: ReadonlyMap<string, number | undefined>;
}

const watchMs = 1000;
const removeMs = 60_000;
/** The program gets these of the operator's variables, and those of proxies. */
const passed =
  /^(PATH|HOME|LANG|LC_[A-Z]+|TMPDIR|LD_LIBRARY_PATH|FLM_\w+|XDG_\w+|XILINX_\w+|(?:https?|all|no)_proxy)$/i;

/**
 * FastFlowLM's own tool (`flm pull`), which keeps models in a store of its own. It may leave parts of files that its server then
 * loads, so that every file is compared with the sizes in its `model_info.json`, beside `model_list.json`.
 */
export class FlmTool {
  readonly #env: NodeJS.ProcessEnv;
  readonly #stallMs: number;
  readonly #subscribers = new Subscribers<[]>();
  readonly #sizes = new Map<string, number>();

  constructor(env: NodeJS.ProcessEnv, stallMs = 300_000) {
    this.#env = env;
    this.#stallMs = stallMs;
  }

  /** Calls `onChange` after a pull has ended. */
  watch(onChange: () => void): Disposable {
    return this.#subscribers.add(onChange);
  }

  /** The bytes of a model that was whole at the last observation. */
  sizeOf(tag: string): number {
    return this.#sizes.get(tag) ?? 0;
  }

  async observe(tag: string): Promise<FlmModel> {
    const program = await this.#program();
    if (program === undefined) {
      const message = `flm://${tag} is fetched by FastFlowLM's own tool, and there is no \`flm\` on the PATH of the operator`;
      return { state: "unavailable", message };
    }
    const listed = await this.#listed(tag, program);
    if (typeof listed === "string") return { state: "unavailable", message: listed };
    const { directory, sizes } = listed;
    const wrong: string[] = [];
    let sizeBytes = 0;
    for (const [name, expected] of sizes) {
      const found = await stat(join(directory, name)).catch(() => undefined);
      sizeBytes += expected ?? found?.size ?? 0;
      if (found === undefined) wrong.push(`${name} is missing`);
      else if (found.size === 0 || (expected !== undefined && found.size !== expected))
        wrong.push(`${name} has ${found.size} bytes${expected === undefined ? "" : `, not ${expected}`}`);
    }
    if (wrong.length > 0) return { state: "missing", wrong, sizeBytes };
    this.#sizes.set(tag, sizeBytes);
    return { state: "whole", directory, sizeBytes };
  }

  /**
   * Fetches the model, and once more with `--force` where its files then are not what the list says. Rejects with
   * FetchError, or as `signal` was aborted.
   */
  async fetch(tag: string, progress: DownloadProgress, signal: AbortSignal): Promise<void> {
    try {
      for (const force of [[], ["--force"]]) {
        await this.#pull([tag, ...force], tag, progress, signal);
        const found = await this.observe(tag);
        if (found.state === "unavailable") throw new FetchError("ToolFailed", found.message);
        if (found.state === "whole") {
          progress.bytesDone = found.sizeBytes;
          return;
        }
        if (force.length === 0) continue;
        throw new FetchError(
          "SizeMismatch",
          `\`flm pull ${tag} --force\` has left files that are not whole: ${found.wrong.join("; ")}`,
        );
      }
    } finally {
      this.#subscribers.notify();
    }
  }

  /**
   * The files that a model has in FastFlowLM's store, whole or not. Rejects with FetchError where the program is missing,
   * or does not know the model.
   */
  async stored(tag: string): Promise<{ readonly directory: string; readonly sizeBytes: number }> {
    const { listed } = await this.#known(tag);
    return { directory: listed.directory, sizeBytes: await bytesIn(listed) };
  }

  /** `flm remove`. Returns the number of freed bytes. Rejects with FetchError where files stay, or as `signal` was aborted. */
  async remove(tag: string, signal: AbortSignal): Promise<number> {
    const { program, listed } = await this.#known(tag);
    const before = await bytesIn(listed);
    try {
      await programOutput(program, ["remove", tag], {
        signal: AbortSignal.any([signal, AbortSignal.timeout(removeMs)]),
        ignoresOutput: true,
        env: this.#programEnv(),
      });
    } catch (error) {
      signal.throwIfAborted();
      throw new FetchError("ToolFailed", `\`flm remove ${tag}\` has failed: ${errorMessage(error)}`, { cause: error });
    } finally {
      this.#subscribers.notify();
    }
    const after = await bytesIn(listed);
    if (after > 0)
      throw new FetchError("ToolFailed", `\`flm remove ${tag}\` has left ${after} bytes: delete it by hand`);
    return before;
  }

  async #known(tag: string): Promise<{ readonly program: string; readonly listed: Listed }> {
    const program = await this.#program();
    if (program === undefined) throw new FetchError("ToolFailed", "there is no `flm` on the PATH of the operator");
    const listed = await this.#listed(tag, program);
    if (typeof listed === "string") throw new FetchError("ToolFailed", listed);
    return { program, listed };
  }

  #programEnv(): NodeJS.ProcessEnv {
    return Object.fromEntries(Object.entries(this.#env).filter(([name]) => passed.test(name)));
  }

  async #pull(args: readonly string[], tag: string, progress: DownloadProgress, signal: AbortSignal): Promise<void> {
    const { program, listed } = await this.#known(tag);
    const total = [...listed.sizes.values()].reduce<number>((sum, size) => sum + (size ?? 0), 0);
    if (total > 0) progress.bytesTotal = total;
    const stalled = new AbortController();
    let lastProgressAt = performance.now();
    const check = async (): Promise<void> => {
      const bytes = await bytesIn(listed);
      if (bytes !== progress.bytesDone) lastProgressAt = performance.now();
      progress.receivedBytes += Math.max(0, bytes - progress.bytesDone);
      progress.bytesDone = bytes;
      if (performance.now() - lastProgressAt < this.#stallMs) return;
      progress.stalls += 1;
      stalled.abort(
        new FetchError("FetchFailed", `\`flm pull ${tag}\` has written nothing for ${this.#stallMs / 1000} s`),
      );
    };
    const timer = setInterval(() => void check(), watchMs);
    try {
      await programOutput(program, ["pull", ...args], {
        signal: AbortSignal.any([signal, stalled.signal]),
        ignoresOutput: true,
        env: this.#programEnv(),
      });
    } catch (error) {
      if (signal.aborted || error instanceof FetchError) throw error;
      throw new FetchError("FetchFailed", `\`flm pull ${tag}\` has failed: ${errorMessage(error)}`, { cause: error });
    } finally {
      clearInterval(timer);
    }
  }

  async #program(): Promise<string | undefined> {
    for (const directory of (this.#env["PATH"] ?? "").split(delimiter)) {
      if (directory === "") continue;
      const path = join(directory, "flm");
      if (await isAccessible(path, constants.X_OK)) return path;
    }
    return undefined;
  }

  /** The model's entry in FastFlowLM's list, or the reason for its absence. */
  async #listed(tag: string, program: string): Promise<Listed | string> {
    const path = await this.#listPath(program);
    if (path === undefined) return `there is no model_list.json of FastFlowLM near ${program}: set FLM_CONFIG_PATH`;
    const list = await readJson(path);
    const info = await readJson(join(dirname(path), "model_info.json"));
    const [family = "", size = ""] = tag.split(":", 2);
    const models = isRecord(list) ? list["models"] : undefined;
    const sizes = isRecord(models) ? models[family] : undefined;
    const entry = isRecord(sizes) ? (size === "" ? Object.values(sizes)[0] : sizes[size]) : undefined;
    if (!isRecord(entry) || typeof entry["name"] !== "string" || !Array.isArray(entry["files"]))
      return `FastFlowLM has no model ${tag}: see \`flm list\``;
    const known = new Map<string, number>();
    const files = isRecord(info) ? info[tag] : undefined;
    for (const file of Array.isArray(files) ? files.filter(isRecord) : [])
      if (typeof file["path"] === "string" && typeof file["size"] === "number") known.set(file["path"], file["size"]);
    const below = isRecord(list) && typeof list["model_path"] === "string" ? list["model_path"] : "models";
    const { FLM_MODEL_PATH: root = join(this.#env["HOME"] ?? "/root", ".config/flm") } = this.#env;
    const names = entry["files"].filter((name) => typeof name === "string");
    return {
      directory: join(root, below, entry["name"]),
      sizes: new Map(names.map((name) => [name, known.get(name)])),
    };
  }

  async #listPath(program: string): Promise<string | undefined> {
    const { FLM_CONFIG_PATH: named } = this.#env;
    const bin = dirname(await realpath(program).catch(() => program));
    const near = [
      join(bin, "model_list.json"),
      join(bin, "../share/flm/model_list.json"),
      "/opt/fastflowlm/share/flm/model_list.json",
    ];
    for (const path of named === undefined || named === "" ? near : [named])
      if (await isAccessible(path, constants.R_OK)) return path;
    return undefined;
  }
}

async function isAccessible(path: string, mode: number): Promise<boolean> {
  return await access(path, mode).then(
    () => true,
    () => false,
  );
}

async function bytesIn({ directory, sizes }: Listed): Promise<number> {
  let bytes = 0;
  for (const name of sizes.keys()) bytes += (await stat(join(directory, name)).catch(() => undefined))?.size ?? 0;
  return bytes;
}

async function readJson(path: string): Promise<unknown> {
  try {
    return parseJson(await readFile(path, "utf8"));
  } catch (error) {
    if (errorCode(error) === undefined) throw error;
    return undefined;
  }
}
