import { request } from "node:http";
import { startDockerDaemon, type DockerDaemonDouble } from "../doubles/docker-daemon.ts";

/** A socket before a daemon's, which notes what is asked. */
export async function countingSocket(daemon: string): Promise<DockerDaemonDouble> {
  return await startDockerDaemon((_asked, response, incoming) => {
    const { method, url, headers } = incoming;
    const onward = request({ socketPath: daemon, method, path: url, headers }, (answer) => {
      response.writeHead(answer.statusCode ?? 502, answer.headers);
      response.flushHeaders();
      answer.pipe(response);
    });
    onward.once("error", () => response.destroy());
    response.once("close", () => onward.destroy());
    incoming.pipe(onward);
  });
}
