-- The platform's submit filter. A batch job that may be requeued gets the expedited requeue (Slurm >= 25.11): when a node
-- of it fails, it keeps the healthy ones and starts again before its rivals. Every way of submitting comes through here.
-- Arithmetic instead of bit operators: Slurm is linked with Lua 5.1 here and with 5.4 there.

local function with_flag(flags, flag)
  if flags == nil or flags == slurm.NO_VAL64 then flags = 0 end
  if math.floor(flags / flag) % 2 == 1 then return flags end
  return flags + flag
end

local function is_batch(job)
  return job.script ~= nil and job.script ~= ""
end

-- Of a heterogeneous job only the leader has the script, so only the leader would get the flag: better none.
local function is_heterogeneous(job)
  return job.het_job_offset ~= nil and job.het_job_offset ~= slurm.NO_VAL
end

function slurm_job_submit(job, partitions, submit_uid)
  -- requeue: 0 where the user said --no-requeue, which stands.
  local wanted = is_batch(job) and not is_heterogeneous(job) and job.requeue ~= 0
  if wanted and slurm.EXPEDITED_REQUEUE ~= nil then
    job.requeue = 1
    job.bitflags = with_flag(job.bitflags, slurm.EXPEDITED_REQUEUE)
  end
  return slurm.SUCCESS
end

function slurm_job_modify(job, record, partitions, modify_uid)
  return slurm.SUCCESS
end

return slurm.SUCCESS
