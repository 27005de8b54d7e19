import { spawn, spawnSync } from "node:child_process";
import { mkdirSync, mkdtempSync, rmSync } from "node:fs";
import { cp, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { dirname, join } from "node:path";
import { PassThrough } from "node:stream";
import { finished } from "node:stream/promises";
import Dockerode from "dockerode";

/** The files of an image, gathered in a directory of its own; disposing removes it, and so does leaving by `exit`. */
export class Stage implements AsyncDisposable {
  readonly root: string;
  // A copy that has begun goes on while it is removed: what it makes meanwhile is removed with the next try.
  readonly #onExit = (): void => rmSync(this.root, { recursive: true, force: true, maxRetries: 10 });

  private constructor(root: string) {
    this.root = root;
    process.on("exit", this.#onExit);
  }

  static open(): Stage {
    // In one step with the promise to remove it: a signal ends the process between any two. Nor may a directory be made
    // when all has been removed.
    const stage = new Stage(mkdtempSync(join(tmpdir(), "berth-image-")));
    for (const directory of ["tmp", "proc", "sys", "dev", "etc"]) mkdirSync(join(stage.root, directory));
    return stage;
  }

  async add(source: string, target: string): Promise<void> {
    const path = join(this.root, target);
    mkdirSync(dirname(path), { recursive: true });
    await cp(source, path, { recursive: true, dereference: true });
  }

  /** A program of this machine with the shared libraries that its loader finds, each at its own path. */
  async addProgram(source: string, target: string): Promise<void> {
    await this.add(source, target);
    await this.addLibrariesOf(source);
  }

  async addLibrariesOf(source: string): Promise<void> {
    const { stdout } = spawnSync("ldd", [source], { encoding: "utf8" });
    for (const [, library = ""] of stdout.matchAll(/(?:=> |^\s*)(\/\S+) \(0x/gm)) await this.add(library, library);
  }

  /** Makes an image of the files. Rejects with what the daemon says. */
  async import(
    socketPath: string,
    image: { readonly repo: string; readonly tag: string; readonly changes: readonly string[] },
  ): Promise<void> {
    const tar = spawn("tar", ["-C", this.root, "--owner=0", "--group=0", "-c", "."], {
      stdio: ["ignore", "pipe", "inherit"],
    });
    // Docker takes the tag either way, Podman only so.
    const options = { repo: `${image.repo}:${image.tag}`, changes: [...image.changes] };
    // The tar stream is an HTTP body: through a PassThrough its end is seen in time.
    const answer = await new Dockerode({ socketPath }).importImage(tar.stdout.pipe(new PassThrough()), options);
    let said = "";
    answer.on("data", (chunk: Buffer) => (said += chunk.toString()));
    await finished(answer);
    const failure = /"error":"([^"]*)"/.exec(said)?.[1];
    if (failure !== undefined) throw new Error(`the image ${image.repo}:${image.tag} was not made: ${failure}`);
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await rm(this.root, { recursive: true, force: true });
    process.off("exit", this.#onExit);
  }
}
