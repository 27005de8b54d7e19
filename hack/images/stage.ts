import { spawn, spawnSync } from "node:child_process";
import { createHash } from "node:crypto";
import { mkdirSync, mkdtempSync, rmSync } from "node:fs";
import { rm, writeFile } from "node:fs/promises";
import { arch, tmpdir } from "node:os";
import { dirname, join } from "node:path";
import { PassThrough } from "node:stream";
import { finished } from "node:stream/promises";
import Dockerode from "dockerode";
import { fileDigest } from "../../src/lib/file-digest.ts";
import { sameBytes } from "../release/archive.ts";
import { copy } from "../release/program.ts";
import { ran } from "../release/ran.ts";

export interface ArchivedImage {
  /** With its tag. */
  readonly name: string;
  readonly entrypoint: readonly string[];
  readonly env?: readonly string[];
  /** A number: clusters refuse names, since a name may be root's. */
  readonly user?: string;
  readonly workingDir?: string;
}

/** The files of an image, in a directory of its own; disposing removes it, and so does `exit`. */
export class Stage implements AsyncDisposable {
  readonly root: string;
  // A running copy continues during the removal: its files are removed by the next attempt.
  readonly #onExit = (): void => rmSync(this.root, { recursive: true, force: true, maxRetries: 10 });

  private constructor(root: string) {
    this.root = root;
    process.on("exit", this.#onExit);
  }

  static open(): Stage {
    // In one step with the registration of its removal: a signal may end the process between any two. Nor may a
    // directory be made after the removal.
    const stage = new Stage(mkdtempSync(join(tmpdir(), "berth-image-")));
    for (const directory of ["tmp", "proc", "sys", "dev", "etc"]) mkdirSync(join(stage.root, directory));
    return stage;
  }

  async add(source: string, target: string): Promise<void> {
    await copy(source, join(this.root, target));
  }

  /** A program of one's own text, which names its interpreter. */
  async addScript(target: string, text: string): Promise<void> {
    const path = join(this.root, target);
    mkdirSync(dirname(path), { recursive: true });
    await writeFile(path, text, { mode: 0o755 });
  }

  /** A program of this machine with its shared libraries, each at its own path. */
  async addProgram(source: string, target: string): Promise<void> {
    await this.add(source, target);
    await this.addLibrariesOf(source);
  }

  async addLibrariesOf(source: string): Promise<void> {
    const { stdout } = spawnSync("ldd", [source], { encoding: "utf8" });
    for (const [, library = ""] of stdout.matchAll(/(?:=> |^\s*)(\/\S+) \(0x/gm)) await this.add(library, library);
  }

  /** Makes an image of the files. Rejects with the daemon's error. */
  async import(
    socketPath: string,
    image: { readonly repo: string; readonly tag: string; readonly changes: readonly string[] },
  ): Promise<void> {
    const tar = spawn("tar", ["-C", this.root, "--owner=0", "--group=0", "-c", "."], {
      stdio: ["ignore", "pipe", "inherit"],
    });
    // Docker accepts the tag either way, Podman only in this form.
    const options = { repo: `${image.repo}:${image.tag}`, changes: [...image.changes] };
    // The tar stream is an HTTP body: through a PassThrough its end is noticed in time.
    const answer = await new Dockerode({ socketPath }).importImage(tar.stdout.pipe(new PassThrough()), options);
    let said = "";
    answer.on("data", (chunk: Buffer) => (said += chunk.toString()));
    await finished(answer);
    const failure = /"error":"([^"]*)"/.exec(said)?.[1];
    if (failure !== undefined) throw new Error(`the image ${image.repo}:${image.tag} was not made: ${failure}`);
  }

  /** Writes an image of the files as `docker save` does; the same files give the same bytes. */
  async archive(file: string, image: ArchivedImage): Promise<void> {
    const parts = mkdtempSync(join(tmpdir(), "berth-archive-"));
    try {
      const layer = join(parts, "layer.tar");
      const same = sameBytes(0);
      await ran("tar", ["-C", this.root, ...same, "-cf", layer, "."]);
      const { name, user = "", workingDir = "/", env = [], entrypoint } = image;
      const created = "1970-01-01T00:00:00Z";
      const config = JSON.stringify({
        architecture: arch() === "x64" ? "amd64" : arch(),
        os: "linux",
        created,
        config: {
          Entrypoint: entrypoint,
          Env: ["PATH=/usr/local/bin:/usr/bin:/bin", ...env],
          WorkingDir: workingDir,
          User: user,
        },
        rootfs: { type: "layers", diff_ids: [`sha256:${(await fileDigest(layer, "sha256")).toString("hex")}`] },
        history: [{ created }],
      });
      const configName = `${createHash("sha256").update(config).digest("hex")}.json`;
      await writeFile(join(parts, configName), config);
      const manifest = [{ Config: configName, RepoTags: [name], Layers: ["layer.tar"] }];
      await writeFile(join(parts, "manifest.json"), JSON.stringify(manifest));
      await ran("tar", ["-C", parts, ...same, "-cf", file, "manifest.json", configName, "layer.tar"]);
    } finally {
      await rm(parts, { recursive: true, force: true });
    }
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await rm(this.root, { recursive: true, force: true });
    process.off("exit", this.#onExit);
  }
}
