import { imageReference, repositoryOf } from "../../api/image-reference.ts";
import type { ImageInspectInfo } from "dockerode";
import { FetchJobs } from "../../lib/fetch-jobs.ts";
import { LineCutter } from "../logs/log-lines.ts";
import type { Preparation } from "../runtime.ts";
import { RuntimeUnavailable } from "../runtime-unavailable.ts";
import { DaemonRefusal, type Daemon } from "./daemon.ts";
import { pullFailure, type PullFailure } from "./pull-failure.ts";
import { PullProgress } from "./pull-progress.ts";
import { registryAuth } from "./registry-auth.ts";

/**
 * Fetches images in the background, each once for any number of waiting slots. The daemon decides what is fetched
 * twice: Docker resumes a broken layer, as often as its `max-download-attempts` allows, and keeps nothing of a pull
 * that failed or was abandoned (https://github.com/moby/moby/issues/26146); Podman keeps whole layers.
 */
export class Images {
  readonly #daemon: Daemon;
  readonly #env: NodeJS.ProcessEnv;
  readonly #jobs: FetchJobs<PullProgress, PullFailure>;

  constructor(options: { daemon: Daemon; env: NodeJS.ProcessEnv; onSlot: (slot: string) => void }) {
    this.#daemon = options.daemon;
    this.#env = options.env;
    this.#jobs = new FetchJobs({
      newProgress: () => new PullProgress(),
      fetch: async (image, progress, signal) => await this.#fetch(image, progress, signal),
      failureOf: pullFailure,
      onChange: options.onSlot,
    });
  }

  /**
   * Whether the image is present, and the progress of this slot's fetch. `attempt` is the reason for the fetch: for
   * another attempt, an image that could not be fetched counts as absent again. Starts nothing.
   */
  async preparation(slot: string, image: string, attempt: string): Promise<Preparation> {
    const job = this.#jobs.followed(image, { requester: slot, attempt });
    if (job === undefined) {
      const found = await this.#inspect(image);
      if (found === undefined) return { state: "absent", message: `the image ${image} is not on this machine` };
      if (found instanceof DaemonRefusal) return { state: "failed", ...pullFailure(image, found) };
      const digest = digestOf(image, found.RepoDigests ?? []);
      return { state: "ready", program: found.Id, ...(digest === undefined ? {} : { digest }) };
    }
    if (job.state === "failed") {
      const { failure, retryAt } = job;
      return { state: "failed", ...failure, ...(retryAt === undefined ? {} : { retryAt }) };
    }
    const message = `the image ${image} is being fetched${troubleOf(job.progress)}`;
    return { state: "fetching", message, progress: job.progress.read() };
  }

  /** Starts to fetch the image unless it is present, or joins the job of another slot. */
  async fetch(slot: string, image: string, attempt: string): Promise<void> {
    await this.#jobs.join(image, { requester: slot, attempt }, () => this.#inspect(image));
  }

  /** Ends what is being fetched for this slot alone, but for these images. */
  async keepOnly(slot: string, images: readonly string[]): Promise<void> {
    await this.#jobs.keepOnly(slot, () => new Set(images));
  }

  /** Undefined for a missing image, a refusal when the daemon rejects the name or cannot inspect it. */
  async #inspect(image: string): Promise<ImageInspectInfo | DaemonRefusal | undefined> {
    if (!imageReference.test(image)) return new DaemonRefusal(400, "invalid reference format");
    try {
      return await this.#daemon.find((api) => api.getImage(image).inspect(), "brief");
    } catch (error) {
      if (error instanceof DaemonRefusal) return error;
      throw error;
    }
  }

  async close(): Promise<void> {
    await this.#jobs[Symbol.asyncDispose]();
  }

  async #fetch(image: string, progress: PullProgress, signal: AbortSignal): Promise<void> {
    const authconfig = await registryAuth(image, this.#env, signal);
    const stream = await this.#daemon.call(
      (api) =>
        // Without a tag the daemon would fetch all tags.
        api.createImage(authconfig, {
          fromImage: image === repositoryOf(image) ? `${image}:latest` : image,
          abortSignal: signal,
        }),
      "asAborted",
    );
    const cutter = new LineCutter();
    try {
      for await (const chunk of stream) for (const line of cutter.push(Buffer.from(chunk))) progress.take(line);
    } catch (error) {
      throw new RuntimeUnavailable(`the pull of ${image} was cut`, { cause: error });
    }
    progress.take(cutter.flush());
    if (progress.error !== undefined) throw new DaemonRefusal(500, progress.error);
    // Otherwise it would be fetched again at once, and again.
    if ((await this.#inspect(image)) === undefined) throw new Error("it was fetched, and is missing");
  }
}

/** A hanging pull has no end, and unpacking reports nothing either: people judge by the time without progress. */
function troubleOf(progress: PullProgress): string {
  const minutes = Math.floor(progress.sinceLineMs() / 60_000);
  if (minutes > 0) return `; the container engine has reported no progress for ${minutes} min`;
  return progress.isBroken ? "; its connection broke, and the container engine goes on in a moment" : "";
}

/** The digest in the image's own repository; a locally built image has none. */
function digestOf(image: string, digests: readonly string[]): string | undefined {
  const repository = repositoryOf(image);
  const own = digests.find((digest) => isSame(repositoryOf(digest), repository));
  return own?.split("@")[1];
}

/** Docker and Podman write Docker Hub's images in a short and a long form. */
function isSame(one: string, other: string): boolean {
  const plain = (name: string): string => name.replace(/^docker\.io\/(library\/)?/, "");
  return plain(one) === plain(other);
}
