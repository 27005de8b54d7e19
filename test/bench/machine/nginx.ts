import { mkdir, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { answerBody } from "../programs/wire.ts";

const common = (directory: string): string => `daemon off;
master_process off;
pid ${directory}/pid;
error_log ${directory}/error.log warn;
worker_rlimit_nofile 16384;
events { worker_connections 8192; }
`;

const paths = (directory: string): string =>
  ["client_body", "proxy", "fastcgi", "uwsgi", "scgi"]
    .map((name) => `  ${name}_temp_path ${directory}/${name};`)
    .join("\n");

/** The program that stands where Berth stands: one worker, kept-alive connections to the engine, nothing buffered. */
export async function nginxProxy(directory: string, options: { port: number; enginePort: number }): Promise<string[]> {
  return await written(
    directory,
    `  client_body_buffer_size 128k;
  client_max_body_size 64m;
  upstream engine {
    server 127.0.0.1:${options.enginePort};
    keepalive 1024;
    keepalive_requests 100000000;
  }
  server {
    listen 127.0.0.1:${options.port} backlog=4096;
    location / {
      proxy_pass http://engine;
      proxy_http_version 1.1;
      proxy_set_header Connection "";
      proxy_buffering off;
    }
  }
`,
  );
}

/** An engine that answers at once: nothing faster is at hand everywhere. It takes any path and body. */
export async function nginxEngine(directory: string, options: { port: number; model: string }): Promise<string[]> {
  return await written(
    directory,
    `  default_type application/json;
  server {
    listen 127.0.0.1:${options.port} backlog=4096;
    location = /health { return 200 '{"status":"ok"}'; }
    location / { return 200 '${answerBody(options.model)}'; }
  }
`,
  );
}

/** One worker in the foreground that logs no requests; `http` is what stands in its `http` block. Its command line. */
async function written(directory: string, http: string): Promise<string[]> {
  await mkdir(directory, { recursive: true });
  const file = join(directory, "nginx.conf");
  await writeFile(
    file,
    `${common(directory)}http {
${paths(directory)}
  access_log off;
  keepalive_requests 100000000;
${http}}
`,
  );
  return ["nginx", "-p", directory, "-e", join(directory, "error.log"), "-c", file];
}

/** A server of the files of one directory. */
export async function nginxFiles(directory: string, options: { port: number; root: string }): Promise<string[]> {
  return await written(
    directory,
    `  sendfile on;
  server {
    listen 127.0.0.1:${options.port};
    root ${options.root};
  }
`,
  );
}
