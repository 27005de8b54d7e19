import type { Exit, PodExit } from "../../api/workload.ts";

/** The kubelet's reasons of a container whose image it does not get. */
export const pullReasons: ReadonlySet<string> = new Set([
  "ErrImagePull",
  "ImagePullBackOff",
  "InvalidImageName",
  "ErrImageNeverPull",
  "ImageInspectError",
  "RegistryUnavailable",
  "SignatureValidationFailed",
]);

/** Why the node does not get the image: registries and container engines have messages only, no codes. */
export function pullExit(
  image: string,
  kubeletReason: string,
  said: string,
): Pick<Exit, "reason" | "message"> | Pick<PodExit, "reason" | "message"> {
  const words = said.replaceAll(/\s+/g, " ").trim();
  const text = (message: string): string =>
    `the image ${image} ${message}${words === "" ? "" : ` (${words.slice(0, 300)})`}`;
  const exit = (reason: PodExit["reason"], message: string): Pick<PodExit, "reason" | "message"> => ({
    reason,
    message: text(message),
  });
  if (kubeletReason === "InvalidImageName") return { reason: "StartFailed", message: text("is no name of an image") };
  if (kubeletReason === "ErrImageNeverPull")
    return exit("ImageNotFound", "is not on the node, and imagePullPolicy Never forbids to fetch it");
  if (/no match for platform|no matching manifest|exec format error/i.test(words))
    return exit("WrongPlatform", "is not made for the node's processor");
  if (/no space left on device|disk quota exceeded/i.test(words))
    return exit("PullFailed", "does not fit on the node's disk: remove images or files there");
  const secrets = "name a Secret with its credentials in podTemplate.spec.imagePullSecrets";
  if (/repository does not exist|pull access denied|insufficient_scope|\bdenied\b/i.test(words))
    return exit("ImageNotFound", `does not exist, or its registry wants credentials: ${secrets}`);
  if (/unauthorized|authentication required|no basic auth credentials|\b401\b|\b403\b|forbidden/i.test(words))
    return exit("Unauthorized", `is refused by its registry: ${secrets}`);
  if (/not found|manifest unknown|name unknown|\b404\b/i.test(words)) return exit("ImageNotFound", "does not exist");
  return exit("PullFailed", "could not be fetched");
}
