import {AsyncLocalStorage,AsyncResource} from 'node:async_hooks';
for (const k of ['run','enterWith']) { const o=AsyncLocalStorage.prototype[k]; AsyncLocalStorage.prototype[k]=function(...a){ console.error('ALS',k,new Error().stack.split('\n').slice(2,8).join('\n')); return o.apply(this,a);} }
