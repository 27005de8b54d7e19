import { arch } from "node:os";
import { errorMessage } from "../../lib/error-code.ts";

export interface PullFailure {
  readonly reason: "ImageNotFound" | "Unauthorized" | "WrongPlatform" | "NoSpace" | "PullFailed";
  readonly message: string;
  /** Another attempt changes nothing. */
  readonly isTerminal: boolean;
}

/**
 * Classifies the errors of registries, Docker and Podman for an image that cannot be fetched: they have messages only,
 * no codes.
 */
export function pullFailure(image: string, error: unknown): PullFailure {
  const said = errorMessage(error)
    // The client's description of its request, before the daemon's own message.
    .replace(/^\(HTTP code \d+\) [^-]*- /, "")
    .replaceAll(/\s+/g, " ")
    .trim();
  const failure = (reason: PullFailure["reason"], message: string, isTerminal: boolean): PullFailure => ({
    reason,
    message: `the image ${image} ${message} (${said.slice(0, 300)})`,
    isTerminal,
  });
  if (/no space left on device|disk quota exceeded/i.test(said)) {
    return failure("NoSpace", "does not fit: the container engine's disk is full", false);
  }
  if (
    /no matching manifest|does not match the (specified|expected) platform|no image found in .* for architecture/i.test(
      said,
    )
  ) {
    return failure("WrongPlatform", `is not made for this machine (${arch()})`, true);
  }
  // ghcr.io answers only "denied", for private images and for missing ones.
  if (/repository does not exist|(?<!permission )\bdenied\b/i.test(said)) {
    return failure("ImageNotFound", "does not exist, or needs `docker login`", true);
  }
  if (/unauthorized|authentication required|no basic auth credentials|\b401\b/i.test(said)) {
    return failure("Unauthorized", "needs `docker login`, or another account", true);
  }
  if (/invalid reference format/i.test(said)) return failure("ImageNotFound", "is no name of an image", true);
  if (/manifest unknown|not found|no such image|name unknown/i.test(said)) {
    return failure("ImageNotFound", "does not exist", true);
  }
  return failure("PullFailed", "could not be fetched", false);
}
