module sparewheel.dev/lab/pause

go 1.26
